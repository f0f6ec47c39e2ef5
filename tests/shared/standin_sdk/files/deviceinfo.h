/* Stand-in for the NDK's <deviceinfo.h>: the calls that ohforge's programs use. */
#ifndef DEVICEINFO_H
#define DEVICEINFO_H

#ifdef __cplusplus
extern "C" {
#endif

int OH_GetSdkApiVersion(void);
const char *OH_GetOSFullName(void);

#ifdef __cplusplus
}
#endif
#endif
