#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>

static void on_read(struct bufferevent *event, void *base) {
    char got[16] = "";
    bufferevent_read(event, got, sizeof got - 1);
    puts(got);
    event_base_loopbreak(base);
}

int main(void) {
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    if (!base || bufferevent_pair_new(base, BEV_OPT_CLOSE_ON_FREE, pair)) return 1;
    bufferevent_setcb(pair[1], on_read, NULL, NULL, base);
    bufferevent_enable(pair[1], EV_READ);
    bufferevent_write(pair[0], "from end to end", 15);
    event_base_dispatch(base);
    return 0;
}
