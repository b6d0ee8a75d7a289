"""One file per resource: its operations, and the shapes that only it takes or answers with."""
