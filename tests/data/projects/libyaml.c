#include <stdio.h>
#include <yaml.h>

int main(void) {
    static const char text[] = "a: &x [1, 2]\nb: *x\n";
    yaml_parser_t parser;
    yaml_event_t event;
    int kinds[32] = {0}, done = 0;
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, sizeof text - 1);
    while (!done && yaml_parser_parse(&parser, &event)) {
        kinds[event.type]++;
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    printf("%d scalars, %d aliases\n", kinds[YAML_SCALAR_EVENT], kinds[YAML_ALIAS_EVENT]);
    return 0;
}
