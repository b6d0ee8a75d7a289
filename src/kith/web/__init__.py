"""What browsers are sent: `files` reads a folder of pages, scripts and styles; `console/` is the operator's console."""
