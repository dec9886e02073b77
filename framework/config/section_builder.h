// SPDX-License-Identifier: Apache-2.0
// Writes the rows of the schema: a member pointer says both the type of a key and where its value lives.
#pragma once
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/config/schema.h"

namespace tessera::config {

template <class S>
class SectionBuilder {
 public:
  SectionBuilder(std::string name, std::string help, Access<S> locate) : locate_(std::move(locate)) {
    section_.name = std::move(name);
    section_.help = std::move(help);
    section_.count = [](RunConfig&) { return size_t{1}; };
    section_.append = [](RunConfig&) {};
  }

  // For a section that may be absent or repeated.
  SectionBuilder& elements(Section::Kind kind, std::function<size_t(RunConfig&)> count,
                           std::function<void(RunConfig&)> append) {
    section_.kind = kind;
    section_.count = std::move(count);
    section_.append = std::move(append);
    return *this;
  }

  template <class T>
  SectionBuilder& key(std::string name, T S::*member, Facts facts) {
    Access<T> access = [locate = locate_, member](RunConfig& config, size_t index) -> T& {
      return locate(config, index).*member;
    };
    section_.keys.push_back({std::move(name), std::move(access), std::move(facts)});
    return *this;
  }

  template <class E>
  SectionBuilder& choice(std::string name, E S::*member, std::vector<std::pair<std::string, E>> names,
                         Facts facts) {
    Choice choice;
    for (auto& [text, value] : names) choice.names.emplace_back(std::move(text), static_cast<int>(value));
    choice.get = [locate = locate_, member](RunConfig& config, size_t index) {
      return static_cast<int>(locate(config, index).*member);
    };
    choice.set = [locate = locate_, member](RunConfig& config, size_t index, int value) {
      locate(config, index).*member = static_cast<E>(value);
    };
    section_.keys.push_back({std::move(name), std::move(choice), std::move(facts)});
    return *this;
  }

  SectionBuilder& later(std::string name, std::string help) {
    section_.keys.push_back({std::move(name), std::monostate{}, Facts{.help = std::move(help)}});
    return *this;
  }

  Section build() { return std::move(section_); }

 private:
  Section section_;
  Access<S> locate_;
};

// A section that is known and that no code reads.
inline Section later_section(std::string name, std::string help, std::vector<std::string> keys) {
  Section section;
  section.name = std::move(name);
  section.kind = Section::Kind::Later;
  section.help = std::move(help);
  for (std::string& key : keys) section.keys.push_back({std::move(key), std::monostate{}, Facts{}});
  section.count = [](RunConfig&) { return size_t{0}; };
  section.append = [](RunConfig&) {};
  return section;
}

}  // namespace tessera::config
