# Starts the server, generates text with the model in MODEL, and stops the server.
export OLLAMA_HOST=127.0.0.1:18434
ollama serve >/tmp/ollama.log 2>&1 &
server=$!
n=0
while [ "$n" -lt 120 ] && ! ollama list >/dev/null 2>&1 && kill -0 "$server" 2>/dev/null; do
    sleep 1
    n=$((n + 1))
done
answer=$(ollama run "$MODEL" 'Answer with one word: what is the capital of France?')
status=$?
kill "$server" 2>/dev/null
cat /tmp/ollama.log
[ "$status" = 0 ] && [ -n "$answer" ] || exit 1
echo "token: $answer"
