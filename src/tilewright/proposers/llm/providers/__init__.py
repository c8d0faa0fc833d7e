"""One short module per provider; its SDK is imported only when a model of it is used."""
