// The files that a compilation leaves in its cache folder.
#ifndef OHFORGE_NNRT_CACHE_HPP
#define OHFORGE_NNRT_CACHE_HPP

#include "graph.hpp"

namespace reference {

// Uses the cache when it fits, and (re)writes it when there is none or an older version. Whatever the files say, the
// reference runtime compiles anew: they only answer for the return codes.
OH_NN_ReturnCode use_cache(const std::string &folder, uint32_t version, size_t device, const Graph &graph);

}  // namespace reference

#endif
