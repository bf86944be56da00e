"""The environments, one file or one package of small files each; none imports another."""
