//! Strings that control a terminal.

/// Terminal control strings: they set titles, clear the screen, write to the clipboard or override
/// the text direction, some with C1 characters.
pub const TERMINAL_PAYLOADS: [&str; 18] = [
    "\x1b]0;title\x07",
    "\x1b]2;title\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1bP1$r\x1b\\",
    "\x1b_apc\x1b\\",
    "\x1b^pm\x1b\\",
    "\x1bXsos\x1b\\",
    "\u{9b}31m",
    "\u{9d}0;title\u{9c}",
    "back\x08\x08space",
    "bell\x07",
    "over\rwrite",
    "nul\0nul",
    "del\x7f",
    "\u{202e}desrever\u{202c}",
    "\u{2066}isolated\u{2069}",
];
