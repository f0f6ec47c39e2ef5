#include <cjson/cJSON.h>
#include <stdio.h>

int main(void) {
    cJSON *value = cJSON_Parse("{\"list\": [1, 2.5, \"\\u00e9\"], \"none\": null}");
    char *text = value ? cJSON_PrintUnformatted(value) : NULL;
    puts(text ? text : "nothing");
    return 0;
}
