/* Stand-in for libdeviceinfo_ndk; API_LEVEL comes from the release that is stood in for. */
#include "deviceinfo.h"

int OH_GetSdkApiVersion(void) {
    return API_LEVEL;
}

const char *OH_GetOSFullName(void) {
    return "OpenHarmony (stand-in)";
}
