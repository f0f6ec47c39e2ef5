#include "cache.hpp"

#include <sys/stat.h>

#include <cstdio>
#include <cstring>

namespace reference {

namespace {

constexpr size_t largest_file = 200u * 1000 * 1000;

struct Info {
    uint64_t count = 1, version = 0, device = 0, checksum = 0;
};

// CRC-16 with the polynomial 0x1021, start value 0.
uint16_t crc16(const std::string &text) {
    uint16_t crc = 0;
    for (unsigned char byte : text) {
        crc = static_cast<uint16_t>(crc ^ byte << 8);
        for (int bit = 0; bit < 8; bit++) crc = static_cast<uint16_t>(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

bool read_file(const std::string &path, std::string &content) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    char part[4096];
    content.clear();
    for (size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0 && content.size() <= largest_file;)
        content.append(part, got);
    std::fclose(file);
    return true;
}

bool write_file(const std::string &path, const void *bytes, size_t size) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file) return false;
    bool good = std::fwrite(bytes, 1, size, file) == size;
    return std::fclose(file) == 0 && good;
}

std::string content_of(const Graph &graph) {
    std::string text = "ohforge reference runtime, compiled model\n";
    for (const Operation &operation : graph.operations) text += std::to_string(operation.type) + "\n";
    return text;
}

OH_NN_ReturnCode write_cache(const std::string &folder, uint32_t version, size_t device, const Graph &graph) {
    std::string content = content_of(graph);
    Info info;
    info.version = version, info.device = device, info.checksum = crc16(content);
    bool good = write_file(folder + "/0.nncache", content.data(), content.size()) &&
                write_file(folder + "/cache_info.nncache", &info, sizeof info);
    return good ? OH_NN_SUCCESS : OH_NN_INVALID_FILE;
}

}  // namespace

OH_NN_ReturnCode use_cache(const std::string &folder, uint32_t version, size_t device, const Graph &graph) {
    struct stat status;
    std::string raw, content;
    if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return OH_NN_INVALID_PARAMETER;
    if (!read_file(folder + "/cache_info.nncache", raw)) return write_cache(folder, version, device, graph);
    Info info;
    if (raw.size() != sizeof info) return new_rules ? write_cache(folder, version, device, graph) : OH_NN_INVALID_FILE;
    std::memcpy(&info, raw.data(), sizeof info);
    if (version > info.version) return write_cache(folder, version, device, graph);
    if (version < info.version) return OH_NN_OPERATION_FORBIDDEN;
    bool readable = read_file(folder + "/0.nncache", content) && !content.empty() && content.size() <= largest_file;
    bool same = readable && crc16(content) == info.checksum;
    if (new_rules) return same && info.device == device ? OH_NN_SUCCESS : write_cache(folder, version, device, graph);
    if (info.device != device) return OH_NN_INVALID_PARAMETER;
    return same ? OH_NN_SUCCESS : OH_NN_INVALID_FILE;
}

}  // namespace reference
