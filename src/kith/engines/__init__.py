"""Engines implement the ports: one folder per engine, each with a README of its layout and caveats.

`run/opening/` chooses the engines by the settings and opens them. To add one, see docs/engines.md.
"""
