"""What implements the ports: one folder an engine, each with a README of its layout and caveats."""
