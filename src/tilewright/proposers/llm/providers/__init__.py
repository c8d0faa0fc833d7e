"""One short module per provider, whose SDK is imported only if one of its models is used."""
