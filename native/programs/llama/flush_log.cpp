// Prints what llama.cpp's log still holds when the program ends.
//
// The generated text and the timing lines pass through a queue that a thread of its own empties. The
// logger is deliberately never destroyed, so nothing waits for that thread: on a busy machine a program
// ends with status 0 and the last lines are lost. This function runs after the destructors of all static
// objects; the logger is still alive then, and pausing it prints the queue and joins the thread.

struct common_log;
common_log * common_log_main();
void common_log_pause(common_log * log);

namespace {

__attribute__((destructor)) void print_what_is_left() {
    common_log_pause(common_log_main());
}

}  // namespace
