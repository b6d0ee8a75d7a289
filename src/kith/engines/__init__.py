"""Engines implement the ports: one folder per engine, each with a README of its layout and caveats.

`run/opening/` chooses and opens them by the settings. To add one: docs/engines.md.
"""
