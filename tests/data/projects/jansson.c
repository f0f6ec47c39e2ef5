#include <jansson.h>
#include <stdio.h>

int main(void) {
    json_error_t error;
    json_t *value = json_loads("{\"b\": [1, true], \"a\": 2.5}", 0, &error);
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    puts(text);
    printf("%s\n", json_loads("[1,", 0, &error) ? "?" : "refused");
    return 0;
}
