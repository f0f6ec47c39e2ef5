// Reads JSON: as much of it as a description of a network needs, and everything wrong is an error with its place.
#ifndef OHFORGE_NNRT_JSON_HPP
#define OHFORGE_NNRT_JSON_HPP

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct DescriptionError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Json {
  public:
    enum class Kind { null, boolean, number, text, list, object };

    static Json parse(const std::string &text);  // Throws DescriptionError.

    Kind kind = Kind::null;
    bool truth = false;
    double number = 0;
    std::string text;
    std::vector<Json> list;
    std::map<std::string, Json> object;

    // Members of an object; `where` is for the message when they are missing or of another kind.
    const Json *find(const std::string &key) const;
    const Json &need(const std::string &key, Kind kind, const std::string &where) const;
    std::string text_or(const std::string &key, const std::string &otherwise) const;
    double number_or(const std::string &key, double otherwise) const;
    std::vector<double> numbers(const std::string &where) const;  // This list's.
};

#endif
