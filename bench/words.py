"""Words that stand beside a number wherever it is shown."""

EMULATED = "EMULATED: times of qemu on this computer, which say nothing about a real board"
