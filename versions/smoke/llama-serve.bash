# Starts llama.cpp's server with the model in MODEL, a file in /models, requests one token, and stops
# the server. The image has no curl, so bash opens the connection.
case $MODEL in /*) ;; *) MODEL=/models/$MODEL ;; esac
if [ "${SOFTWARE-}" = 1 ]; then
    export GGML_VK_VISIBLE_DEVICES=0
fi
# Releases from September 2026 on have no --no-mmap.
load=(--no-mmap)
[[ "$(llama-server --help 2>&1)" == *--load-mode* ]] && load=(--load-mode none)
llama-server --host 127.0.0.1 --port 18080 --model "$MODEL" --n-gpu-layers 999 "${load[@]}" --ctx-size 256 &
server=$!
trap 'kill "$server" 2>/dev/null' EXIT

ask() { # method path body
    exec 3<>/dev/tcp/127.0.0.1/18080 || return 1
    printf '%s %s HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "${#3}" "$3" >&3
    cat <&3
    exec 3>&-
}

for ((second = 0; second < 900; second++)); do
    kill -0 "$server" 2>/dev/null || { echo "the server exited" >&2; exit 1; }
    [[ "$(ask GET /health '' 2>/dev/null)" == *'"ok"'* ]] && break
    sleep 1
done
answer=$(ask POST /completion '{"prompt": "The capital of France is", "n_predict": 1}')
token=$(sed -n 's/.*"content":"\([^"]*\)".*/\1/p' <<<"$answer")
[ -n "$token" ] || { printf 'no token in the answer: %s\n' "$answer" >&2; exit 1; }
echo "token: $token"
