# Lists the devices that llama.cpp computes on. ggml skips software devices unless a variable
# selects them; SOFTWARE=1 selects the first one.
if [ "${SOFTWARE-}" = 1 ]; then
    GGML_VK_VISIBLE_DEVICES=0
    export GGML_VK_VISIBLE_DEVICES
fi
llama-cli --list-devices 2>&1
