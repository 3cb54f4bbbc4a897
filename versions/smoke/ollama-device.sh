# Starts the server and waits for the message about GPUs that the server prints once at startup.
export OLLAMA_HOST=127.0.0.1:18434
log=/tmp/ollama.log
ollama serve >"$log" 2>&1 &
server=$!
n=0
while [ "$n" -lt 120 ] && ! grep -q 'inference compute' "$log" && kill -0 "$server" 2>/dev/null; do
    sleep 1
    n=$((n + 1))
done
kill "$server" 2>/dev/null
cat "$log"
