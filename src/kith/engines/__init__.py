"""Engines implement the ports: one folder per engine, each with a README of its layout and caveats."""
