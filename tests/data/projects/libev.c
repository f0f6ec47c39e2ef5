#include <ev.h>
#include <stdio.h>

static int ticks;
static void tick(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)events;
    if (++ticks == 3) ev_timer_stop(loop, timer);
}

int main(void) {
    struct ev_loop *loop = ev_default_loop(0);
    ev_timer timer;
    ev_timer_init(&timer, tick, 0.001, 0.001);
    ev_timer_start(loop, &timer);
    ev_run(loop, 0);
    printf("%d ticks, %s\n", ticks, ev_backend(loop) == EVBACKEND_EPOLL ? "epoll" : "another way");
    return 0;
}
