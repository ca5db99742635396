// The source of the targets that own precompiled headers (cmake/precompiled.cmake). GoogleTest has
// the main function.
