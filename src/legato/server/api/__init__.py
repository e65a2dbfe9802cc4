"""The API's endpoints: `table.py` what one is, `shapes.py` what goes in and out, the others what they do."""
