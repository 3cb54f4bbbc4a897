# Says the version of llama.cpp; it says so on standard error.
llama-cli --version 2>&1
