#include <Eigen/Dense>
#include <iostream>

int main() {
    Eigen::Matrix3d hilbert;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) hilbert(i, j) = 1.0 / (i + j + 1);
    Eigen::Matrix3d inverse = hilbert.fullPivLu().inverse();
    std::cout << inverse.array().round().matrix() << '\n';
}
