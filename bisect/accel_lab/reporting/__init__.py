"""Reports of a finished run: terminal tables, report.html, report.json, issue text, bundle."""
