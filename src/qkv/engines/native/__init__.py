"""Our own engine in C++ (native/ in the repository): a model in one mapped file, read in 8 bits or in float32."""
