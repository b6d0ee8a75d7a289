"""Measurements. `kith bench NAME...` runs them; each module's docstring says what it measures and how."""
