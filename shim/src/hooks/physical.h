#ifndef GW_PHYSICAL_H
#define GW_PHYSICAL_H

/* In a forked child: the lock of handles is free. */
void gw_physical_reset(void);

#endif
