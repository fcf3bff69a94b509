"""What is made from a finished run: terminal tables, report.html, report.json, issue text, bundle."""
