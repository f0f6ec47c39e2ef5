#include <stdio.h>
#include <string.h>
#include <uv.h>

static char got[16];

static void room(uv_handle_t *handle, size_t size, uv_buf_t *buf) {
    (void)handle, (void)size;
    *buf = uv_buf_init(got, sizeof got - 1);
}
static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf) {
    (void)size, (void)buf;
    uv_close((uv_handle_t *)stream, NULL);
}
static void on_timer(uv_timer_t *timer) {
    uv_buf_t text = uv_buf_init("through a pipe", 14);
    uv_try_write((uv_stream_t *)timer->data, &text, 1);
    uv_close((uv_handle_t *)timer->data, NULL);
}
static int square;
static void work(uv_work_t *request) { square = *(int *)request->data * *(int *)request->data; }
static void after(uv_work_t *request, int status) { (void)request, (void)status; }

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    uv_file ends[2];
    uv_pipe_t in, out;
    uv_timer_t timer = {.data = &out};
    int seven = 7;
    uv_work_t request = {.data = &seven};
    if (uv_pipe(ends, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE)) return 1;
    uv_pipe_init(loop, &in, 0), uv_pipe_init(loop, &out, 0), uv_timer_init(loop, &timer);
    uv_pipe_open(&in, ends[0]), uv_pipe_open(&out, ends[1]);
    uv_read_start((uv_stream_t *)&in, room, on_read);
    uv_timer_start(&timer, on_timer, 1, 0);
    uv_queue_work(loop, &request, work, after);
    uv_run(loop, UV_RUN_DEFAULT);
    printf("%s, %d\n", got, square);
    return 0;
}
