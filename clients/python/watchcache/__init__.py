"""Client of watchcache for controllers written in Python."""
