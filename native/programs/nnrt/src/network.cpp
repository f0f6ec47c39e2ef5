#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "json.hpp"

namespace {

constexpr double largest_size = 1 << 20;
constexpr size_t largest_tensor = 64 << 20; /* bytes */

size_t item_bytes(OH_NN_DataType type) { return type == OH_NN_INT64 ? 8 : type == OH_NN_INT8 || type == OH_NN_BOOL ? 1 : 4; }

template <typename Number>
std::vector<uint8_t> raw(const std::vector<Number> &numbers) {
    std::vector<uint8_t> bytes(numbers.size() * sizeof(Number));
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
}

class Builder {
  public:
    explicit Builder(const Json &description) : description_(description) {}

    Network build() {
        for (const Json &input : need(description_, "inputs").list) {
            uint32_t index = tensor(input, input.need("name", Json::Kind::text, "an input").text, 0.0, 1.0);
            network_.inputs.push_back(index);
        }
        for (const Json &layer : need(description_, "layers").list) add_layer(layer);
        for (const Json &name : need(description_, "outputs").list) network_.outputs.push_back(index_of(name.text));
        if (network_.inputs.empty() || network_.operations.empty() || network_.outputs.empty())
            throw DescriptionError("there must be inputs, layers and outputs");
        return std::move(network_);
    }

  private:
    const Json &description_;
    Network network_;

    static const Json &need(const Json &object, const char *key) {
        return object.need(key, Json::Kind::list, "the description");
    }

    uint32_t index_of(const std::string &name) const {
        for (uint32_t i = 0; i < network_.tensors.size(); i++)
            if (network_.tensors[i].role == OH_NN_TENSOR && network_.tensors[i].name == name) return i;
        throw DescriptionError("no input or layer before it is called '" + name + "'");
    }

    uint32_t add(NetTensor tensor) {
        network_.tensors.push_back(std::move(tensor));
        return static_cast<uint32_t>(network_.tensors.size() - 1);
    }

    // A tensor with its numbers: given as `values`, or from a seed, spread evenly from `low` to `high`.
    uint32_t tensor(const Json &entry, const std::string &name, double low, double high) {
        NetTensor result;
        result.name = name;
        for (double size : entry.need("shape", Json::Kind::list, name).numbers("the shape of " + name)) {
            if (size < 1 || size > largest_size || size != std::floor(size)) throw DescriptionError(name + " has a wrong shape");
            result.shape.push_back(static_cast<int32_t>(size));
        }
        if (result.shape.empty() || result.count() > largest_tensor / 4) throw DescriptionError(name + " is empty or too large");
        std::vector<float> numbers;
        if (const Json *values = entry.find("values")) {
            for (double value : values->numbers(name)) numbers.push_back(static_cast<float>(value));
        } else {
            uint64_t state = static_cast<uint64_t>(entry.number_or("seed", 1));
            double scale = entry.number_or("scale", 1);
            while (numbers.size() < result.count())
                numbers.push_back(static_cast<float>((low + (high - low) * next(state)) * scale));
        }
        if (numbers.size() != result.count()) throw DescriptionError(name + " has not as many values as its shape says");
        result.data = raw(numbers);
        return add(std::move(result));
    }

    static double next(uint64_t &state) { /* splitmix64: the same on every machine */
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        return static_cast<double>((z ^ z >> 31) >> 40) * 0x1p-24;
    }

    template <typename Number>
    void parameter(NetOperation &operation, OH_NN_TensorType role, OH_NN_DataType type, std::vector<Number> numbers) {
        NetTensor result;
        result.name = "parameter";
        result.type = type;
        result.role = role;
        result.shape = {static_cast<int32_t>(numbers.size())};
        result.data = raw(numbers);
        operation.parameters.push_back(add(std::move(result)));
    }

    void activation(NetOperation &operation, OH_NN_TensorType role, const Json &layer) {
        std::string name = layer.text_or("activation", "none");
        int8_t number = name == "none" ? 0 : name == "relu" ? 1 : name == "relu6" ? 2 : -1;
        if (number < 0) throw DescriptionError("unknown activation " + name);
        parameter<int8_t>(operation, role, OH_NN_INT8, {number});
    }

    static std::vector<int64_t> pair(const Json &layer, const char *key, std::vector<int64_t> otherwise) {
        const Json *given = layer.find(key);
        if (!given) return otherwise;
        std::vector<double> numbers = given->numbers(key);
        if (numbers.size() != 2 || *std::min_element(numbers.begin(), numbers.end()) < 1 ||
            *std::max_element(numbers.begin(), numbers.end()) > largest_size)
            throw DescriptionError(std::string(key) + " must be two numbers from 1 on");
        return {static_cast<int64_t>(numbers[0]), static_cast<int64_t>(numbers[1])};
    }

    void result(NetOperation operation, const std::string &name, std::vector<int32_t> shape) {
        NetTensor tensor;
        tensor.name = operation.name = name;
        tensor.shape = std::move(shape);
        if (tensor.count() > largest_tensor / 4) throw DescriptionError(name + " would be too large");
        operation.outputs.push_back(add(std::move(tensor)));
        network_.operations.push_back(std::move(operation));
    }

    const std::vector<int32_t> &shape_of(const NetOperation &operation, size_t input) const {
        return network_.tensors[operation.inputs[input]].shape;
    }

    void add_layer(const Json &layer);
    void binary(NetOperation operation, const Json &layer, const std::string &name, OH_NN_TensorType role);
    void convolution(NetOperation operation, const Json &layer, const std::string &name);
    void pool(NetOperation operation, const Json &layer, const std::string &name, bool maximum);
    void full_connection(NetOperation operation, const Json &layer, const std::string &name);
    void window(NetOperation &operation, const Json &layer, OH_NN_TensorType role, const std::vector<int64_t> &kernel,
                const std::vector<int64_t> &strides, int32_t size[2]);
};

void Builder::add_layer(const Json &layer) {
    std::string op = layer.need("op", Json::Kind::text, "a layer").text;
    std::string name = layer.need("name", Json::Kind::text, "a layer").text;
    static const std::vector<std::pair<const char *, OH_NN_OperationType>> known = {
        {"add", OH_NN_OPS_ADD},         {"sub", OH_NN_OPS_SUB},           {"mul", OH_NN_OPS_MUL},
        {"div", OH_NN_OPS_DIV},         {"conv2d", OH_NN_OPS_CONV2D},     {"max_pool", OH_NN_OPS_MAX_POOL},
        {"avg_pool", OH_NN_OPS_AVG_POOL}, {"full_connection", OH_NN_OPS_FULL_CONNECTION},
        {"relu", OH_NN_OPS_RELU},       {"relu6", OH_NN_OPS_RELU6},       {"sigmoid", OH_NN_OPS_SIGMOID},
        {"tanh", OH_NN_OPS_TANH},       {"softmax", OH_NN_OPS_SOFTMAX}};
    auto found = std::find_if(known.begin(), known.end(), [&op](const auto &entry) { return op == entry.first; });
    if (found == known.end()) throw DescriptionError("unknown op " + op + " of layer " + name);
    NetOperation operation = {found->second, name, {}, {}, {}};
    operation.inputs.push_back(index_of(layer.need("input", Json::Kind::text, name).text));
    switch (found->second) {
        case OH_NN_OPS_ADD:
            return binary(operation, layer, name, OH_NN_ADD_ACTIVATIONTYPE);
        case OH_NN_OPS_SUB:
            return binary(operation, layer, name, OH_NN_SUB_ACTIVATIONTYPE);
        case OH_NN_OPS_MUL:
            return binary(operation, layer, name, OH_NN_MUL_ACTIVATION_TYPE);
        case OH_NN_OPS_DIV:
            return binary(operation, layer, name, OH_NN_DIV_ACTIVATIONTYPE);
        case OH_NN_OPS_CONV2D:
            return convolution(operation, layer, name);
        case OH_NN_OPS_MAX_POOL:
        case OH_NN_OPS_AVG_POOL:
            return pool(operation, layer, name, found->second == OH_NN_OPS_MAX_POOL);
        case OH_NN_OPS_FULL_CONNECTION:
            return full_connection(operation, layer, name);
        case OH_NN_OPS_SOFTMAX:
            parameter<int64_t>(operation, OH_NN_SOFTMAX_AXIS, OH_NN_INT64, {static_cast<int64_t>(layer.number_or("axis", -1))});
            break;
        default:
            break;
    }
    result(operation, name, shape_of(operation, 0));
}

// Both operands have the same shape, or the second is one number or one row of channels.
void Builder::binary(NetOperation operation, const Json &layer, const std::string &name, OH_NN_TensorType role) {
    if (const Json *other = layer.find("other"); other && other->kind == Json::Kind::text)
        operation.inputs.push_back(index_of(other->text));
    else
        operation.inputs.push_back(tensor(layer.need("other", Json::Kind::object, name), name + ".other", -1, 1));
    const std::vector<int32_t> a = shape_of(operation, 0), b = shape_of(operation, 1);
    bool fits = a == b || (b.size() == 1 && (b[0] == 1 || b[0] == a.back()));
    if (!fits) throw DescriptionError("the operands of " + name + " do not fit together");
    activation(operation, role, layer);
    result(operation, name, a);
}

// Only SAME and VALID: the two that a pad mode can say. NNRt numbers them 0 and 1.
void Builder::window(NetOperation &operation, const Json &layer, OH_NN_TensorType role, const std::vector<int64_t> &kernel,
                     const std::vector<int64_t> &strides, int32_t size[2]) {
    std::string padding = layer.text_or("padding", "same");
    bool same = padding == "same";
    if (!same && padding != "valid") throw DescriptionError("padding must be same or valid, not " + padding);
    for (int i = 0; i < 2; i++) {
        int32_t whole = shape_of(operation, 0)[static_cast<size_t>(i) + 1], step = static_cast<int32_t>(strides[i]);
        int32_t room = same ? whole - 1 : whole - static_cast<int32_t>(kernel[i]);
        if (room < 0) throw DescriptionError("the kernel is larger than the input");
        size[i] = room / step + 1;
    }
    parameter<int8_t>(operation, role, OH_NN_INT8, {static_cast<int8_t>(same ? 0 : 1)});
}

void Builder::convolution(NetOperation operation, const Json &layer, const std::string &name) {
    if (shape_of(operation, 0).size() != 4) throw DescriptionError(name + " needs an input of four dimensions");
    operation.inputs.push_back(tensor(layer.need("weights", Json::Kind::object, name), name + ".weights", -0.5, 0.5));
    operation.inputs.push_back(tensor(layer.need("bias", Json::Kind::object, name), name + ".bias", -0.5, 0.5));
    const std::vector<int32_t> weights = shape_of(operation, 1), input = shape_of(operation, 0);
    if (weights.size() != 4 || weights[3] != input[3] || network_.tensors[operation.inputs[2]].count() != size_t(weights[0]))
        throw DescriptionError("weights [out, height, width, in], bias and input of " + name + " do not fit together");
    std::vector<int64_t> strides = pair(layer, "strides", {1, 1});
    int32_t size[2];
    parameter<int64_t>(operation, OH_NN_CONV2D_STRIDES, OH_NN_INT64, strides);
    parameter<int64_t>(operation, OH_NN_CONV2D_DILATION, OH_NN_INT64, {1, 1});
    window(operation, layer, OH_NN_CONV2D_PAD_MODE, {weights[1], weights[2]}, strides, size);
    parameter<int64_t>(operation, OH_NN_CONV2D_GROUP, OH_NN_INT64, {1});
    activation(operation, OH_NN_CONV2D_ACTIVATION_TYPE, layer);
    result(operation, name, {input[0], size[0], size[1], weights[0]});
}

void Builder::pool(NetOperation operation, const Json &layer, const std::string &name, bool maximum) {
    const std::vector<int32_t> input = shape_of(operation, 0);
    if (input.size() != 4) throw DescriptionError(name + " needs an input of four dimensions");
    std::vector<int64_t> kernel = pair(layer, "kernel", {2, 2}), strides = pair(layer, "strides", kernel);
    int32_t size[2];
    parameter<int64_t>(operation, maximum ? OH_NN_MAX_POOL_KERNEL_SIZE : OH_NN_AVG_POOL_KERNEL_SIZE, OH_NN_INT64, kernel);
    parameter<int64_t>(operation, maximum ? OH_NN_MAX_POOL_STRIDE : OH_NN_AVG_POOL_STRIDE, OH_NN_INT64, strides);
    window(operation, layer, maximum ? OH_NN_MAX_POOL_PAD_MODE : OH_NN_AVG_POOL_PAD_MODE, kernel, strides, size);
    activation(operation, maximum ? OH_NN_MAX_POOL_ACTIVATION_TYPE : OH_NN_AVG_POOL_ACTIVATION_TYPE, layer);
    result(operation, name, {input[0], size[0], size[1], input[3]});
}

void Builder::full_connection(NetOperation operation, const Json &layer, const std::string &name) {
    operation.inputs.push_back(tensor(layer.need("weights", Json::Kind::object, name), name + ".weights", -0.5, 0.5));
    operation.inputs.push_back(tensor(layer.need("bias", Json::Kind::object, name), name + ".bias", -0.5, 0.5));
    const std::vector<int32_t> weights = shape_of(operation, 1), input = shape_of(operation, 0);
    bool fits = input.size() == 2 && weights.size() == 2 && weights[1] == input[1] &&
                network_.tensors[operation.inputs[2]].count() == size_t(weights[0]);
    if (!fits) throw DescriptionError("input [rows, in], weights [out, in] and bias of " + name + " do not fit together");
    activation(operation, OH_NN_FULL_CONNECTION_ACTIVATIONTYPE, layer);
    result(operation, name, {input[0], weights[0]});
}

std::string read_text(const std::string &path) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) throw DescriptionError("cannot be opened");
    std::string text;
    char part[4096];
    for (size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0 && text.size() < largest_tensor;) text.append(part, got);
    std::fclose(file);
    return text;
}

}  // namespace

size_t NetTensor::count() const {
    size_t product = 1;
    for (int32_t size : shape) {
        product *= static_cast<size_t>(size);
        if (product > largest_tensor) return product;
    }
    return product;
}

size_t NetTensor::bytes() const { return count() * item_bytes(type); }

bool Network::is_input(uint32_t index) const { return std::count(inputs.begin(), inputs.end(), index) > 0; }

const NetTensor *Network::parameter(const NetOperation &operation, OH_NN_TensorType role) const {
    for (uint32_t index : operation.parameters)
        if (tensors[index].role == role) return &tensors[index];
    return nullptr;
}

Network add_network() {
    return Builder(Json::parse(R"({
        "inputs": [{"name": "a", "shape": [1, 2, 2, 3], "values": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
                   {"name": "b", "shape": [1, 2, 2, 3], "values": [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]}],
        "layers": [{"op": "add", "name": "sum", "input": "a", "other": "b"}],
        "outputs": ["sum"]})")).build();
}

Network read_network(const std::string &path) {
    for (const char *ending : {".yaml", ".yml"})
        if (path.size() > std::strlen(ending) && path.compare(path.size() - std::strlen(ending), path.npos, ending) == 0)
            throw DescriptionError("is YAML, and only JSON is read here; `invoke board.run --program nnrt --net` makes JSON of it");
    Json description = Json::parse(read_text(path));
    if (description.kind != Json::Kind::object) throw DescriptionError("the description must be an object");
    return Builder(description).build();
}
