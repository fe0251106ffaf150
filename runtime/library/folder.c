/* The folder of the libraries that were installed with this one: "" in the build; .ci/install compiles this file again
 * for the archive that it installs. */
#ifndef GXRT_LIBRARY_FOLDER
#define GXRT_LIBRARY_FOLDER ""
#endif

extern const char library_folder[];
const char library_folder[] = GXRT_LIBRARY_FOLDER;
