#include <json-c/json.h>
#include <stdio.h>

int main(void) {
    struct json_object *value = json_tokener_parse("{\"a\": [1, 2.5], \"b\": \"\\u00e9\"}");
    puts(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    return 0;
}
