"""One program for each engine, which drives it as its documentation says is best; the benchmark asks and times them."""
