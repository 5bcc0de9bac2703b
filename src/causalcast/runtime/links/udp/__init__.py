"""Links over UDP: sessions of sealed datagrams, as a carrier beside TCP."""
