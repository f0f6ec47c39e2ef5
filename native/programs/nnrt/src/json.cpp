#include "json.hpp"

#include <cstdlib>
#include <cstring>

namespace {

constexpr int deepest = 32;

class Reader {
  public:
    explicit Reader(const std::string &text) : text_(text) {}

    Json whole() {
        Json value = any(0);
        blanks();
        if (at_ != text_.size()) fail("something follows the end");
        return value;
    }

  private:
    const std::string &text_;
    size_t at_ = 0;

    [[noreturn]] void fail(const char *what) const {
        size_t line = 1;
        for (size_t i = 0; i < at_ && i < text_.size(); i++) line += text_[i] == '\n';
        throw DescriptionError("line " + std::to_string(line) + ": " + what);
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    void blanks() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) at_++;
    }

    bool take(char character) {
        blanks();
        if (peek() != character) return false;
        at_++;
        return true;
    }

    void word(const char *rest) {
        if (text_.compare(at_, std::strlen(rest), rest) != 0) fail("not a value");
        at_ += std::strlen(rest);
    }

    Json any(int depth) {
        if (depth > deepest) fail("nested too deeply");
        Json value;
        blanks();
        switch (peek()) {
            case '{':
                members(value, depth);
                break;
            case '[':
                items(value, depth);
                break;
            case '"':
                value.kind = Json::Kind::text;
                value.text = string();
                break;
            case 't':
            case 'f':
                value.kind = Json::Kind::boolean;
                value.truth = peek() == 't';
                word(value.truth ? "true" : "false");
                break;
            case 'n':
                word("null");
                break;
            default:
                value.kind = Json::Kind::number;
                value.number = digits();
        }
        return value;
    }

    void members(Json &value, int depth) {
        value.kind = Json::Kind::object;
        at_++;
        if (take('}')) return;
        do {
            blanks();
            if (peek() != '"') fail("a key must be text");
            std::string key = string();
            if (!take(':')) fail("a colon is missing");
            if (!value.object.emplace(key, any(depth + 1)).second) fail("a key is there twice");
        } while (take(','));
        if (!take('}')) fail("a closing brace is missing");
    }

    void items(Json &value, int depth) {
        value.kind = Json::Kind::list;
        at_++;
        if (take(']')) return;
        do value.list.push_back(any(depth + 1));
        while (take(','));
        if (!take(']')) fail("a closing bracket is missing");
    }

    std::string string() {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        std::string result;
        for (at_++; peek() != '"'; at_++) {
            if (at_ >= text_.size() || peek() == '\n') fail("text without an end");
            char character = peek();
            if (character == '\\') {
                at_++;
                const char *place = peek() ? std::strchr(from, peek()) : nullptr;
                if (!place) fail("an escape that is not known here");
                character = to[place - from];
            }
            result += character;
        }
        at_++;
        return result;
    }

    double digits() {
        const char *start = text_.c_str() + at_;
        char *end;
        if (!std::strchr("-0123456789", *start) || !*start) fail("not a value");
        double number = std::strtod(start, &end);
        if (end == start) fail("not a number");
        at_ += static_cast<size_t>(end - start);
        return number;
    }
};

const char *name_of(Json::Kind kind) {
    static const char *const names[] = {"null", "true or false", "a number", "text", "a list", "an object"};
    return names[static_cast<int>(kind)];
}

}  // namespace

Json Json::parse(const std::string &text) { return Reader(text).whole(); }

const Json *Json::find(const std::string &key) const {
    auto found = object.find(key);
    return found == object.end() ? nullptr : &found->second;
}

const Json &Json::need(const std::string &key, Kind wanted, const std::string &where) const {
    const Json *value = find(key);
    if (!value) throw DescriptionError(where + " lacks " + key);
    if (value->kind != wanted) throw DescriptionError(key + " of " + where + " must be " + name_of(wanted));
    return *value;
}

std::string Json::text_or(const std::string &key, const std::string &otherwise) const {
    return find(key) ? need(key, Kind::text, "the entry").text : otherwise;
}

double Json::number_or(const std::string &key, double otherwise) const {
    return find(key) ? need(key, Kind::number, "the entry").number : otherwise;
}

std::vector<double> Json::numbers(const std::string &where) const {
    std::vector<double> result;
    for (const Json &item : list) {
        if (item.kind != Kind::number) throw DescriptionError(where + " must hold numbers only");
        result.push_back(item.number);
    }
    return result;
}
