"""Closed-form features and validity of candidates, one module for each kind of device."""
