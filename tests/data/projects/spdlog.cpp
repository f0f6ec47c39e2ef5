#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <iostream>

int main() {
    auto log = std::make_shared<spdlog::logger>("own", std::make_shared<spdlog::sinks::ostream_sink_mt>(std::cout));
    log->set_pattern("%n %l %v");
    log->warn("{} of {}", 3, 4);
}
