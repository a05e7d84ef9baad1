// A model file, mapped into memory and checked.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "model.h"

namespace qkv {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Map {  // read-only, for as long as it lives
public:
    explicit Map(const std::string &path);
    ~Map();
    Map(const Map &) = delete;
    Map &operator=(const Map &) = delete;
    const unsigned char *data = nullptr;
    size_t size = 0;
};

struct Opened {
    std::unique_ptr<Map> map;
    std::vector<Layer> reader, decoder;
    Model model;
    int32_t bits = 0;  // of a weight
};

std::unique_ptr<Opened> open_file(const std::string &path);

}  // namespace qkv
