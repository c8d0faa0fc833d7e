"""From NKI code to the intermediate form, with loops kept and all sizes as numbers."""
