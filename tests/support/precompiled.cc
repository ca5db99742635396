// CMake compiles the headers of libraries with this program (cmake/testing.cmake).
int main() {}
