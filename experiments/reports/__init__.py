"""Tables and figures of the studies, one file each."""
