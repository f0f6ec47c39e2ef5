#include <gtest/gtest.h>

TEST(Sums, AreRight) { EXPECT_EQ(2 + 2, 4); }
TEST(Exceptions, AreCaught) { EXPECT_THROW(throw std::runtime_error("x"), std::runtime_error); }
