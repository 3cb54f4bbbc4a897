# Computes one token with the model in MODEL, a file in /models, with all layers on the GPU. Without
# a device, ggml computes on the CPU and exits with 0, so the output must contain ggml's line about
# devices.
case $MODEL in /*) ;; *) MODEL=/models/$MODEL ;; esac
if [ "${SOFTWARE-}" = 1 ]; then
    GGML_VK_VISIBLE_DEVICES=0
    export GGML_VK_VISIBLE_DEVICES
fi
llama-bench --model "$MODEL" --n-prompt 8 --n-gen 1 --repetitions 1 --n-gpu-layers 999 --mmap 0 2>&1
