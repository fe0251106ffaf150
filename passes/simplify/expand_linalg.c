#include "passes/simplify/expand.h"
const Rule rules_expand_linalg[] = {{0}};
