#include <cstdio>
#include <leveldb/db.h>
#include <string>

int main() {
    leveldb::DB *db = nullptr;
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::Status status = leveldb::DB::Open(options, "db", &db);
    if (!status.ok()) return std::puts(status.ToString().c_str()), 1;
    for (int i = 0; i < 1000; i++) db->Put({}, "key" + std::to_string(i), std::to_string(i * i));
    delete db;
    if (!leveldb::DB::Open(options, "db", &db).ok()) return 2;
    std::string value;
    db->Get({}, "key31", &value);
    std::printf("%s\n", value.c_str());
    delete db;
}
