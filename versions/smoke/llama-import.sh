# Prints the version of llama.cpp, which writes it to standard error.
llama-cli --version 2>&1
