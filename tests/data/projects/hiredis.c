#include <hiredis/hiredis.h>
#include <stdio.h>

int main(void) {
    redisReader *reader = redisReaderCreate();
    void *answer = NULL;
    redisReaderFeed(reader, "*2\r\n$5\r\nhello\r\n:42\r\n", 20);
    if (redisReaderGetReply(reader, &answer) || !answer) return 1;
    redisReply *reply = answer;
    printf("%zu %s %lld\n", reply->elements, reply->element[0]->str, reply->element[1]->integer);
    return 0;
}
