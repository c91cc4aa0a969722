"""What travels over HTTP: closed models of every request and answer, shared by the server and the remote store."""
